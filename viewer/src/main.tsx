import { render } from "preact";
import { exported, useRuns } from "./data";
import { ComparePage } from "./pages/compare";
import { EpisodePage } from "./pages/episode";
import { EpisodesPage } from "./pages/episodes";
import { HurtsPage } from "./pages/hurts";
import { RunPage } from "./pages/run";
import { link, useRoute } from "./route";
import "./style.css";

const PAGES = { "": RunPage, episodes: EpisodesPage, episode: EpisodePage, compare: ComparePage, hurts: HurtsPage };
const NAMES: [keyof typeof PAGES, string][] = [["", "Run"], ["episodes", "Episodes"], ["compare", "Compare"], ["hurts", "Where it hurts"]];

function App() {
  const { page, at } = useRoute();
  const { runs, error } = useRuns();
  const Page = PAGES[page as keyof typeof PAGES] ?? RunPage;
  const run = at.get("run") ?? at.get("runs")?.split(",")[0];
  return (
    <>
      <header>
        <a class="brand" href="#/"><img src="icon.svg" alt="" width="22" height="22" /> actfirst</a>
        <nav aria-label="Pages">
          {NAMES.map(([name, text]) => (
            <a key={name} href={link(name, name === "episodes" || name === "hurts" ? { run } : {})} aria-current={page === name || (page === "episode" && name === "episodes") ? "page" : undefined}>
              {text}
            </a>
          ))}
        </nav>
        {exported() && <span class="dim">exported</span>}
      </header>
      <main>
        {error && <p class="error" role="alert">{error}</p>}
        {runs ? <Page runs={runs} at={at} /> : <p class="empty">Reading …</p>}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
