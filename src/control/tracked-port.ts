import type { Soon } from "../event/soon.ts";
import type { Page } from "./port.ts";

/** What the control API asks of tracking, to look at messages and runs. Views are plain data; times in them are unix ms. */
export interface TrackedReading {
  /** Registered ones, newest first. */
  listMessages(filter: MessageQuery): Promise<Page<MessageView, number>>;
  /** By wamid, else by the service's id, else by reference. */
  findMessages(name: string): Soon<readonly MessageView[]>;
  /** Newest first. */
  listRuns(filter: RunQuery): Promise<Page<RunView, number>>;
}

export interface MessageQuery {
  account?: string | undefined;
  status?: string | undefined;
  reference?: string | undefined;
  before?: number | undefined;
  limit: number;
}

export interface RunQuery extends MessageQuery {
  runId?: string | undefined;
}

interface TrackedView {
  readonly account: string;
  readonly times: Readonly<Record<string, number>>;
  readonly registeredAt: number | null;
  readonly updatedAt: number;
}

export interface MessageView extends TrackedView {
  readonly wamid: string;
  readonly sentAt: number | null;
}

export interface RunView extends TrackedView {
  readonly runId: string;
}
