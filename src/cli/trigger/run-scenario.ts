import type { Command } from "commander";
import { scenarioPosts, splitAtRegistration, splitForSecrets, type TriggerScenario } from "../../sandbox/fixtures/trigger-scenarios.ts";
import type { Post } from "../../sandbox/traffic/post.ts";
import { createdSchema, readAnswer } from "../control-views.ts";
import type { Io } from "../io.ts";
import { expectDone, withWriting } from "../reach-relay.ts";
import { type Posting, runPosts } from "./run-posts.ts";

interface ScenarioRun {
  readonly command: Command;
  readonly io: Io;
  readonly config: string;
  readonly scenario: TriggerScenario;
  readonly seed: string;
  /** Unix milliseconds. */
  readonly start: number;
  /** Not given: as many as the scenario has. */
  readonly messages?: number;
}

/** Posts a scenario. What is not as expected goes into the posting's notes. */
export async function runScenario(run: ScenarioRun, posting: Posting): Promise<void> {
  const { scenario, seed, start, messages } = run;
  const { secrets } = posting.target;
  const posts = scenarioPosts(scenario, { seed, start, ...(messages === undefined ? {} : { messages }) });
  if (scenario.rotatesSecrets === true) {
    const parts = splitForSecrets(posts, secrets.length);
    for (const [part, secret] of secrets.toReversed().entries()) await runPosts(parts[part] ?? [], posting, secret);
    return;
  }
  if (scenario.registersLate !== true) return runPosts(posts, posting, secrets[0]);
  const { first, rest } = splitAtRegistration(posts);
  await runPosts(first, posting, secrets[0]);
  if (posting.notes.outcome().unexpected > 0 || posting.signal.aborted) return;
  await register(run, posting, first);
  await runPosts(rest, posting, secrets[0]);
}

async function register({ command, io, config }: ScenarioRun, { target, notes }: Posting, posts: readonly Post[]): Promise<void> {
  const account = target.source?.account;
  let created = 0;
  await withWriting(command, { config, tokenEnv: "RELAY_TOKEN" }, io, "track", async (client) => {
    for (const [at, { subject }] of posts.entries()) {
      const body = { account, wamid: subject.wamid, reference: `trigger-${at + 1}` };
      created += readAnswer(createdSchema, expectDone(await client.request("POST", "/v1/messages/track", body))).created;
    }
  });
  if (created !== posts.length) notes.fault(`registration: ${posts.length} new messages expected, ${created} were`);
}
