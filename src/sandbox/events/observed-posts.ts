import type { Poster } from "./poster.ts";

/** One post to a webhook URL as it went out, and its answer. Further tries, copies and spoilt posts are posts of their own. */
export interface ObservedPost {
  readonly url: string;
  readonly eventId: string;
  /** The bytes posted. */
  readonly body: Buffer;
  /** `event`: rightly signed, as it or its copy should be. The others are what faults add. */
  readonly sort: "event" | "malformed" | "wrongly-signed";
  /** The status answered; null: there was no answer. */
  readonly answered: number | null;
  /** Numbers that grow with every begin and end of a post: one whose `ended` is less than another's `began` was over before it. */
  readonly began: number;
  readonly ended: number;
}

/** The same poster, and reports each post as it ends; not those that closing cut off. */
export function observePosts(poster: Poster, report: (post: ObservedPost) => void): Poster {
  let number = 0;
  return {
    ...poster,
    async post(order) {
      number += 1;
      const began = number;
      const answer = await poster.post(order);
      number += 1;
      const ended = number;
      if (answer.kind === "cut") return answer;
      const { webhook, eventId, body, signature, isMalformed = false } = order;
      const sort = signature === "wrong" ? "wrongly-signed" : isMalformed ? "malformed" : "event";
      report({ url: webhook.url, eventId, body, sort, answered: answer.kind === "answered" ? answer.status : null, began, ended });
      return answer;
    },
  };
}
