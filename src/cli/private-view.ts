import { isCanonicalUuid } from "../event/ids.ts";
import { type IdSort, maskText, maskWamid, screenDeliveryId, screenId } from "../event/mask.ts";

/** How people's data is shown: as it is, or masked. */
export interface PrivateView {
  readonly isMasked: boolean;
  /** A wamid, or the id of a run. */
  subject(subject: { readonly type: string; readonly key: string }): string;
  /** Another id: masked only where it holds a phone number or a wamid, because further commands take it. */
  id(sort: IdSort, id: string): string;
  /** A delivery's id, which has that of its event in it. */
  delivery(id: string): string;
  /** Free text, such as a downstream's answer. */
  text(text: string): string;
  /** The body of an event about `wamid` (null: about no message). */
  body(text: string, wamid: string | null): string;
}

const clearView: PrivateView = {
  isMasked: false,
  subject: ({ key }) => key,
  id: (_sort, id) => id,
  delivery: (id) => id,
  text: (text) => text,
  body: (text) => text,
};

const maskedView: PrivateView = {
  isMasked: true,
  subject: ({ type, key }) => (type === "message" ? maskWamid(key) : screenId("run", key)),
  id: screenId,
  delivery: screenDeliveryId,
  text: maskText,
  body(text, wamid) {
    try {
      return JSON.stringify(maskValue(JSON.parse(text), wamid), null, 2);
    } catch {
      return maskText(text);
    }
  },
};

/** `--show-pii` or not. */
export function privateView(showPii: boolean | undefined): PrivateView {
  return showPii === true ? clearView : maskedView;
}

const isoTime = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:?\d{2})$/;

/** Value by value, so that ids and times, which look like phone numbers inside a text, stay readable. */
function maskValue(value: unknown, wamid: string | null): unknown {
  if (typeof value === "string") {
    if (wamid !== null && value === wamid) return maskWamid(value);
    return isCanonicalUuid(value) || isoTime.test(value) ? value : maskText(value);
  }
  if (typeof value === "number") return maskText(String(value)) === String(value) ? value : "[phone]";
  if (Array.isArray(value)) return value.map((item) => maskValue(item, wamid));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [maskText(key), maskValue(item, wamid)]));
}
