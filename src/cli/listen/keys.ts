export interface KeyActions {
  replay(): void;
  pause(): void;
  skip(): void;
  quit(): void;
  /** Patterns of kinds typed; empty: all. */
  filter(text: string): void;
  /** What has been typed so far; null: nothing is being typed. */
  typing(text: string | null): void;
}

/** What keys do, one character at a time: `r`, `p`, `s`, `f` and a line after it, `q`, Ctrl-C. */
export function createKeys(actions: KeyActions): (characters: string) => void {
  let typed: string | null = null;

  function type(character: string): void {
    const before = typed ?? "";
    if (character === "\x1b") typed = null;
    else if (character === "\x7f" || character === "\b") typed = before.slice(0, -1);
    else if (character === "\r" || character === "\n") {
      typed = null;
      actions.typing(null);
      actions.filter(before.trim());
      return;
    } else if (character >= " ") typed = before + character;
    actions.typing(typed);
  }

  return (characters) => {
    for (const character of characters) {
      if (character === "\x03") actions.quit();
      else if (typed !== null) type(character);
      else if (character === "q") actions.quit();
      else if (character === "r") actions.replay();
      else if (character === "s") actions.skip();
      else if (character === "p") actions.pause();
      else if (character === "f") {
        typed = "";
        actions.typing(typed);
      }
    }
  };
}

/** Gives keys to `press` as they are pressed; the function returned gives the terminal back. */
export function readKeys(input: NodeJS.ReadStream, press: (characters: string) => void): () => void {
  input.setRawMode(true);
  input.setEncoding("utf8");
  input.on("data", press);
  input.resume();
  return () => {
    input.off("data", press);
    input.setRawMode(false);
    input.pause();
  };
}
