import { shownMetadata } from "../../event/metadata.ts";
import type { MessageReading } from "../reading.ts";
import type { MessageFilter, MessageView } from "../views.ts";
import { messageName } from "./keys.ts";
import type { NumberedSubject, ReadSubjects } from "./read-subjects.ts";

/** Messages of one name that are given. */
const mostFound = 100;
const registered = ["registered:m"];

export function createReadMessages(subjects: ReadSubjects) {
  /** The newest that an index has under a name, which may be older than what is stored. */
  const indexed = (list: string, is: (row: NumberedSubject["row"]) => boolean) =>
    subjects.list([list], { after: 0, before: Number.MAX_SAFE_INTEGER, limit: mostFound }, ({ row }) => is(row));

  return {
    bounds: () => subjects.bounds(registered),
    /** Registered ones, newest first. */
    async list({ account, status, reference, after, before, limit }: MessageFilter): Promise<(MessageView & { readonly seq: number })[]> {
      const isAll = account === undefined && status === undefined && reference === undefined;
      const isMeant = ({ account: of, row }: NumberedSubject): boolean =>
        (account === undefined || of === account) &&
        (status === undefined || row.status === status) &&
        (reference === undefined || row.reference === reference);
      const lists = reference === undefined ? registered : [`ref:m:${reference}`];
      const found = await subjects.list(lists, { after, before, limit }, isAll ? null : isMeant);
      return found.map((subject) => ({ seq: subject.seq, ...viewOf(subject) }));
    },
    /** By wamid; by the service's id when none has it; else by reference. */
    async find(name: string): Promise<MessageView[]> {
      const names = (await subjects.accounts()).map((account) => messageName(account, name));
      let found = await subjects.named("m", names);
      if (found.length === 0) found = await indexed(`sid:${name}`, ({ serviceId }) => serviceId === name);
      if (found.length === 0) found = await indexed(`ref:m:${name}`, ({ reference }) => reference === name);
      return found.map(viewOf);
    },
  } satisfies MessageReading;
}

function viewOf({ account, key, row }: NumberedSubject): MessageView {
  return {
    account,
    wamid: key,
    id: row.serviceId,
    conversationId: row.conversationId,
    reference: row.reference,
    metadata: shownMetadata(row.metadata),
    status: row.status,
    errorCode: row.error,
    times: row.times,
    sentAt: row.sentAt,
    registeredAt: row.registeredAt,
    updatedAt: row.updatedAt,
  };
}
