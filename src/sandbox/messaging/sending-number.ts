import type { AccountRecord, SendingNumber } from "../world/records.ts";
import { disconnected, noNumber, noSuchNumber } from "./refusals.ts";

/** The number a message goes out from: the one asked for, or the first connected. 409 when there is none. */
export function sendingNumber({ isConnected, numbers }: AccountRecord, phoneNumberId?: string): SendingNumber {
  if (!isConnected) throw disconnected();
  const connected = numbers.filter((number) => number.isConnected);
  const number = phoneNumberId === undefined ? connected[0] : connected.find((other) => other.phoneNumberId === phoneNumberId);
  if (number === undefined) throw phoneNumberId === undefined ? noNumber() : noSuchNumber();
  return number;
}
