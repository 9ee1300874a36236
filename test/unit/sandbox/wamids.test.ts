import fc from "fast-check";
import { expect, test } from "vitest";
import { phoneInWamid } from "../../../src/model/mask.ts";
import { createPhones, createRandom, createWamids } from "../../../src/sandbox/ids.ts";

const phones = fc.stringMatching(/^[1-9]\d{4,14}$/);

test("a wamid is 58 to 62 characters of base64 that contain the recipient's phone number", () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.array(phones, { minLength: 1, maxLength: 20 }),
      (seed, recipients) => {
        const make = createWamids(createRandom(seed));
        for (const phone of recipients) {
          const wamid = make(phone);
          expect(wamid).toMatch(/^wamid\.[A-Za-z0-9+/]+={0,2}$/);
          expect(wamid.length).toBeGreaterThanOrEqual(58);
          expect(wamid.length).toBeLessThanOrEqual(62);
          expect(Buffer.from(wamid.slice(6), "base64").includes(phone)).toBe(true);
          expect(phoneInWamid(wamid)).toBe(phone);
        }
      },
    ),
  );
});

test("one maker never repeats a wamid, and the same seed makes the same ones", () => {
  const make = (seed: number) => {
    const wamid = createWamids(createRandom(seed));
    return Array.from({ length: 5000 }, () => wamid("5491155501234"));
  };
  const first = make(1);
  expect(new Set(first).size).toBe(first.length);
  expect(make(1)).toEqual(first);
  expect(make(2)).not.toEqual(first);
});

test("both padded and unpadded wamids come", () => {
  const random = createRandom(3);
  const phone = createPhones(random);
  const make = createWamids(random);
  const made = Array.from({ length: 500 }, () => make(phone()));
  expect(made.some((wamid) => wamid.endsWith("="))).toBe(true);
  expect(made.some((wamid) => (wamid.length - 6) % 4 !== 0)).toBe(true);
});

test("a text that is no phone number is refused, and other text holds none", () => {
  expect(() => createWamids(createRandom(1))("+54911")).toThrow(RangeError);
  expect(phoneInWamid("wamid.abc")).toBeNull();
});
