"""`actfirst plan`: a discrete-event model of a run, on a virtual clock. Nothing is computed, everything takes its time.

work    what a run has to do: episodes with their turns and tokens, and when an update is due
costs   what each piece takes: stated for an A100, or read from a run that was made
parts   engine and driver, as queues
model   the training loop over those parts
advice  where the time goes, and which part to add next
"""
