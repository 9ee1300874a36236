import { type EventSet, requestFor } from "../events.ts";

/**
 * The requests of an event set, made before the clock starts, in one piece of memory so that none
 * is collected meanwhile.
 */
export interface RequestPool {
  readonly set: EventSet;
  request(sequence: number): Buffer;
}

export function makePool(set: EventSet): RequestPool {
  const sample = requestFor(set.run, 0).length;
  let bytes = Buffer.allocUnsafe(Math.max(1, set.count) * (sample + 16));
  const ends = new Uint32Array(set.count + 1);
  for (let sequence = 0; sequence < set.count; sequence += 1) {
    const request = requestFor(set.run, sequence);
    const start = ends[sequence] as number;
    if (start + request.length > bytes.length) bytes = Buffer.concat([bytes], bytes.length * 2);
    request.copy(bytes, start);
    ends[sequence + 1] = start + request.length;
  }
  return { set, request: (sequence) => bytes.subarray(ends[sequence], ends[sequence + 1]) };
}
