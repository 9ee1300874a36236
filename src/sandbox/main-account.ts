import { digitsOf } from "./meta/update.ts";

/** The account of which everything is set up at the first start. */
export const mainAccount = "main";

/** Id of an account's business account at the network provider: the sandbox's choice. */
export function wabaIdOf(account: string): string {
  return account === mainAccount ? "102290129340398" : digitsOf(`waba/${account}`, 15);
}
