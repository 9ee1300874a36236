/** The value of a key, which is made when there is none. */
export function kept<K, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  make: () => V,
): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

export const countIn = <K>(map: Map<K, number>, key: K, n = 1): void =>
  void map.set(key, (map.get(key) ?? 0) + n);
