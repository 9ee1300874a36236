import fc from "fast-check";

/** A phone number as people write them: with or without +, with separators of one sort. */
export const phone = fc
  .tuple(
    fc.constantFrom("", "+"),
    fc.constantFrom("", " ", "-", "."),
    fc.array(fc.stringMatching(/^[1-9]\d{2,3}$/), { minLength: 3, maxLength: 3 }),
  )
  .map(([plus, separator, groups]) => `${plus}${groups.join(separator)}`);

/** Ids that hold this phone number, as senders might make them. */
export function hostileId(number: string): fc.Arbitrary<string> {
  const wamid = `wamid.${Buffer.from(`\x1c\x18\x0d${number}\x15\x02\x00\x12`).toString("base64")}`;
  const base64url = Buffer.from(number).toString("base64url");
  return fc.constantFrom(
    number,
    wamid,
    wamid.slice("wamid.".length),
    base64url,
    Buffer.from(number).toString("base64"),
    Buffer.from(wamid).toString("base64url"),
    encodeURIComponent(number),
    `evt_${number}_1`,
    `message.${number}`,
    `${wamid}.sent`,
    `evt.b${base64url}`,
  );
}

/** How a text may show up: in plain, in base64, base64url and percent-encoding. */
export function traces(text: string): string[] {
  const bytes = Buffer.from(text);
  const unpadded = bytes.toString("base64").replaceAll("=", "");
  const all = [
    text,
    text.replace(/^\+/, ""),
    unpadded,
    bytes.toString("base64url"),
    encodeURIComponent(text),
  ];
  const digits = text.replace(/\D/g, "");
  if (/^[+\d .-]*$/.test(text))
    all.push(digits, Buffer.from(digits).toString("base64").replaceAll("=", ""));
  return [...new Set(all)].filter((trace) => trace.length >= 8);
}

/** Which of these any part of the text holds, as it is or decoded. */
export function foundIn(text: string, wanted: readonly string[]): string[] {
  const decoded = [...text.matchAll(/[A-Za-z0-9+/_-]{8,}/g)].flatMap(([word]) =>
    [0, 1, 2, 3].map((from) => Buffer.from(word.slice(from), "base64url").toString("latin1")),
  );
  const everything = [text, ...decoded].join("\n");
  return wanted.filter((each) => everything.includes(each));
}
