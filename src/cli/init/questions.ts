import { createInterface } from "node:readline";
import { InvalidArgumentError } from "commander";
import { CommandFailed } from "../io.ts";

/** Where the questions go. */
export interface Terminal {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  /** True when a person can answer. */
  readonly isTerminal: boolean | undefined;
}

export function createQuestions({ input, output }: Terminal) {
  const lines = createInterface({ input, output });
  // The iterator keeps lines that arrive between two questions, as pasted ones do.
  const answers = lines[Symbol.asyncIterator]();
  let isClosed = false;
  lines.once("close", () => {
    isClosed = true;
  });
  return {
    /** Repeats the question until the answer is valid. An empty answer is the fallback. */
    async next<T extends string>(question: string, fallback: T, read: (text: string) => T): Promise<T> {
      for (;;) {
        lines.setPrompt(`${question} [${fallback}]: `);
        if (!isClosed) lines.prompt();
        const { value, done } = await answers.next();
        if (done === true) throw new CommandFailed("the input ended before all questions were answered; nothing was written");
        const text = value.trim();
        if (text === "") return fallback;
        try {
          return read(text);
        } catch (error) {
          if (!(error instanceof InvalidArgumentError)) throw error;
          output.write(`${error.message}\n`);
        }
      }
    },
    close: () => lines.close(),
  };
}
