"""What a run leaves behind: its folder, its episodes as JSON, and optional metric sinks."""
