/** A text to replace. It must occur exactly once in its file. */
export interface Edit {
  file: string;
  find: string;
  replace: string;
}

/** A test by its file and its full name: the names of its suites and its own, joined with spaces. */
export interface NamedTest {
  file: string;
  name: string;
}

/** A wrong edit of this project's own code, and the test that must fail with it. */
export interface Mutant {
  name: string;
  /** What the edit does wrong. */
  what: string;
  edits: readonly [Edit, ...Edit[]];
  test: NamedTest;
  /** Set if the test runs `dist/workflow-bundle.js`, which is then built from the edited sources. */
  rebuilds?: true;
}

/**
 * Makes the edits of a mutant.
 *
 * @param read reads the text of a file
 * @returns the new text of each file
 * @throws Error if a text to replace does not occur exactly once
 */
export async function mutate(mutant: Mutant, read: (file: string) => Promise<string>): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const { file, find, replace } of mutant.edits) {
    const text = texts.get(file) ?? (await read(file));
    const [before, after, ...more] = text.split(find);
    if (before === undefined || after === undefined || more.length > 0) {
      const count = text.split(find).length - 1;
      throw new Error(`${mutant.name}: must occur exactly once in ${file}, and does ${count} times:\n${find}`);
    }
    texts.set(file, before + replace + after);
  }
  return texts;
}
