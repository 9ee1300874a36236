import { outcomeFor } from "./numbers.ts";
import { rejectedByProvider } from "./refusals.ts";

/** The network provider's first word on a message. */
export interface Provider {
  /** 502 when it does not take messages to `phone`; what is rejected for a while is taken the second time. */
  accept(account: string, phone: string): void;
}

/** Who was rejected for a while is not in the state file: after a restart each is rejected once more. */
export function createProvider(): Provider {
  const rejectedBefore = new Set<string>();
  return {
    accept(account, phone) {
      const { rejection } = outcomeFor(phone);
      if (rejection === undefined) return;
      const key = `${account}\0${phone}`;
      if (rejection.isTemporary && rejectedBefore.has(key)) return;
      rejectedBefore.add(key);
      throw rejectedByProvider(rejection.reason);
    },
  };
}
