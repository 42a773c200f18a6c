// What the server hands out. Lines come from any version of the program: what was added later may be missing.

export interface RunInfo {
  name: string;
  state: "training" | "finished" | "stopped";
  method: string | null;
  environment: string | null;
  student: string | null;
  teacher: string | null;
  seed: number | null;
  updates: number | null;
  fault: string | null;
  log: string[];
}

export type Kind = "metrics" | "utilisation" | "episodes" | "evaluation" | "responses";

export interface EpisodeRow {
  row: number;
  id: string;
  task: string;
  kind: string;
  split: string;
  batch: number | null;
  version: number | null;
  success: boolean;
  score: number;
  turns: number;
  guided: boolean;
  reference: number;
  diverged: number;
  reason: string;
  error: string;
  seconds: number;
  invalid: number[];
  repeated: number[];
  update: number | null;
  seed: number | null;
  who: string | null;
}

export interface ResponseRow {
  row: number;
  episode: string;
  turn: number;
  update: number | null;
  version: number | null;
  kl: number | null;
  worst: number | null;
  tokens: number;
}

export interface Alignment {
  guided: number;
  first_aligned: number;
  fully_aligned: number;
  aligned_turns: number;
  turns: number;
}

export interface EngineStats {
  running: number;
  waiting: number;
}

export interface BatchLine {
  type: "batch";
  training_seconds: number;
  batch: number;
  version: number;
  episodes: number;
  succeeded: number;
  seconds: number;
  transitions: number;
  fast_tokens: number;
  full_tokens: number;
  alignment: Alignment;
  student_engine?: EngineStats | null;
  teacher_engine?: EngineStats | null;
}

export interface UpdateLine {
  type: "update";
  training_seconds: number;
  update: number;
  stages: Record<string, number>;
  mean_lag: number;
  max_lag: number;
  ledger: { generated: number; trained: number; buffered: number; discarded: Record<string, number> };
  loss: number | null;
  reverse_kl: number | null;
  grad_norm: number | null;
  clip_fraction: number | null;
}

export interface EvaluationLine {
  type: "evaluation";
  who: "student" | "teacher";
  update: number;
  training_seconds: number;
  success_rate: number;
  deviation: number | null;
}

export interface SftLine {
  type: "sft";
  step: number;
  training_seconds: number;
  loss: number | null;
  held_out: number | null;
  grad_norm: number | null;
}

export interface UtilisationLine {
  seconds: number;
  gpus: number[];
  parts: Record<string, number>;
}

export type Metric = BatchLine | UpdateLine | EvaluationLine | SftLine;

export interface FastAction {
  mode: string;
  prompt_tokens: number;
  tokens: number;
  text: string;
  action: string | null;
  version: number;
}

/** A prompt as it is rendered now; `exact` where it is known to be the one that was used. */
export interface ShownPrompt {
  turn: number;
  mode: string;
  tokens: number;
  text: string;
  exact: boolean | null;
}

export interface Response {
  prompt_tokens: number;
  tokens: number;
  generated_tokens: number;
  text: string;
  action: string | null;
  truncated: boolean;
  stop_reason: string;
  version: number;
  started?: number | null;
  ended?: number | null;
}

export interface Turn {
  number: number;
  observation: string;
  action: string;
  valid: boolean;
  source: string;
  verdict: string;
  state: string;
  seconds: number;
  requests: FastAction[];
  response: Response | null;
  started?: number | null;
  admissible?: string[] | null;
  reference_next?: string | null;
  reference_admissible?: string[] | null;
}

export interface Episode {
  id: string;
  batch: number;
  task: { id: string; split: string; kind: string };
  success: boolean;
  score: number;
  guided: boolean;
  reference_length: number;
  error: string | null;
  attempts: number;
  seconds: number;
  final_observation: string;
  final_admissible?: string[] | null;
  turns: Turn[];
  update?: number;
  seed?: number;
  who?: string;
}

export interface StoredResponse {
  sample: string;
  episode: string;
  turn: number;
  update: number;
  version: number;
  prompt: string;
  token_texts: string[];
  mask: number[];
  student: (number | null)[];
  teacher: (number | null)[];
  advantages: (number | null)[];
  alternatives?: [string, number][][] | null;
}
