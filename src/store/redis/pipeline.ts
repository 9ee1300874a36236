import type { ChainableCommander, Redis } from "ioredis";
import type { RedisLink } from "./link.ts";
import { RedisUnavailable } from "./unavailable.ts";

type Fill = (commands: ChainableCommander) => unknown;

/** Commands in one round trip, between which others may have their turn; gives what each of them gave. */
export const runPipeline = (link: RedisLink, fill: Fill): Promise<unknown[]> => runAll(link, (redis) => redis.pipeline(), fill);

/** Commands in one piece: nobody sees or changes anything in between. */
export const runMulti = (link: RedisLink, fill: Fill): Promise<unknown[]> => runAll(link, (redis) => redis.multi(), fill);

/**
 * `exec` resolves whatever the commands did. The first error is thrown while the link looks: it takes it as one of any
 * other command, and what was wrong with Redis is known from then on.
 */
function runAll(link: RedisLink, begin: (redis: Redis) => ChainableCommander, fill: Fill): Promise<unknown[]> {
  return link.run(async (redis) => {
    const commands = begin(redis);
    fill(commands);
    const answers = await commands.exec();
    if (answers === null) throw new RedisUnavailable({ kind: "unreachable", message: "the pipeline was not run", mayBeDone: false });
    return answers.map(([error, answer]) => {
      if (error !== null) throw error;
      return answer;
    });
  });
}
