/** The place of the first record with an id greater than `id`, in a list in order of ids; `id` need not be there. */
export function firstAfter(list: readonly { readonly id: string }[], id: string): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((list[middle]?.id ?? "") > id) to = middle;
    else from = middle + 1;
  }
  return from;
}
