import type { CampaignRecord, RecipientsRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { phoneAt } from "./made-up-phones.ts";

/** Whom campaigns have still to write to. */
export interface Recipients {
  /** Remembers the list of a campaign that has one. */
  add(campaign: CampaignRecord, phones: readonly string[]): void;
  /** Takes the next `size` off, those after the `sent` first. */
  take(campaign: CampaignRecord, size: number): string[];
}

/** A list is kept in pieces, so that a state file has little to write after each batch. */
const pieceSize = 1_000;

export function createRecipients({ world, ids }: { world: World; ids: () => string }): Recipients {
  // What a state file remembers is grouped once, when the first is asked for.
  let pieces: Map<string, RecipientsRecord[]> | null = null;
  const piecesOf = (campaignId: string): RecipientsRecord[] => {
    pieces ??= Map.groupBy(world.recipients.all(), (piece) => piece.campaignId);
    const found = pieces.get(campaignId) ?? [];
    pieces.set(campaignId, found);
    return found;
  };
  return {
    add({ id: campaignId, account, createdAt }, phones) {
      const list = piecesOf(campaignId);
      for (let from = 0; from < phones.length; from += pieceSize) {
        const piece = { id: ids(), account, createdAt, campaignId, phones: phones.slice(from, from + pieceSize) };
        world.recipients.put(piece);
        list.push(piece);
      }
    },
    take({ id, firstPhone, sent }, size) {
      if (firstPhone !== null) return Array.from({ length: size }, (_, place) => phoneAt(firstPhone, sent + place));
      const list = piecesOf(id);
      const taken: string[] = [];
      for (let piece = list[0]; piece !== undefined && taken.length < size; piece = list[0]) {
        taken.push(...piece.phones.splice(0, size - taken.length));
        if (piece.phones.length > 0) world.recipients.put(piece);
        else {
          world.recipients.delete(piece.id);
          list.shift();
        }
      }
      return taken;
    },
  };
}
