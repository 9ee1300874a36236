/** What a job of the hand-written BullMQ worker holds. */
export interface PostJob {
  readonly id: string;
  readonly url: string;
  readonly body: string;
}

export const queueName = "posts";
