const AT_ONCE = 10;

/**
 * Like `Promise.all(items.map(work))`, ten at a time: each call costs the server, and often a worker, a question. Answers
 * stand in the order of the items.
 */
export async function fewAtATime<Item, Answer>(
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let next = 0; next < items.length; next += AT_ONCE) {
    answers.push(...(await Promise.all(items.slice(next, next + AT_ONCE).map(work))));
  }
  return answers;
}
