import { useState } from "preact/hooks";
import type { RelayEventDetail } from "../../client/relay-client.ts";
import { useSession } from "../app/session.tsx";
import { Copy } from "../parts/copy.tsx";
import { download } from "../parts/download.ts";
import { Code } from "../parts/notes.tsx";
import { curlOfBody, prettyJson, shellWord } from "./words.ts";

/** The body of an event, as JSON or as it was received, and what can be done with it. */
export function Body({ event, isRevealed }: { event: RelayEventDetail; isRevealed: boolean }) {
  const { can } = useSession();
  const [isRaw, setRaw] = useState(false);
  const pretty = prettyJson(event.text);
  const shown = isRaw ? (event.text ?? event.body) : (pretty ?? event.text ?? event.body);
  const fetchIt = `curl -H "Authorization: Bearer $RELAY_TOKEN" ${shellWord(`${window.location.origin}/v1/events/${event.seq}`)}`;
  return (
    <section>
      <div class="page-head">
        <h2>Body</h2>
        {pretty !== null && (
          <fieldset class="segments">
            <legend class="visually-hidden">Form</legend>
            <button type="button" aria-pressed={!isRaw} onClick={() => setRaw(false)}>
              Pretty
            </button>
            <button type="button" aria-pressed={isRaw} onClick={() => setRaw(true)}>
              Raw
            </button>
          </fieldset>
        )}
        <span class="buttons">
          <Copy text={fetchIt} label="Copy curl that reads it" />
          {isRevealed && (
            <>
              <Copy text={() => curlOfBody(event)} label="Copy curl that posts it" />
              <button type="button" onClick={() => save(event)}>
                Save as fixture
              </button>
            </>
          )}
        </span>
      </div>
      {event.text === null && event.body !== "" && (
        <p class="dim">The bytes are not UTF-8{isRevealed && "; this is their base64"}.</p>
      )}
      {(event.text !== null || isRevealed) && <Code text={shown} label="Body" />}
      {!isRevealed && (
        <p class="dim">
          {can("pii")
            ? "Masked. Reveal shows the received bytes, and offers to post or save them."
            : "Masked. A token with the scope “pii” can reveal the received bytes."}
        </p>
      )}
    </section>
  );
}

/** Downloads the received bytes; `wamid-relay trigger` sends them from the folder `fixtures`. */
function save({ seq, event, status, body }: RelayEventDetail): void {
  const name = [event ?? "event", status, seq]
    .filter((part) => part !== null)
    .join(".")
    .replaceAll(/[^\w.-]/g, "_")
    .slice(0, 100);
  const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
  download(`${name}.json`, "application/json", bytes);
}
