import { join } from 'node:path';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '..', '..');

/**
 * The compiler's errors for TypeScript that is in no file, as if it were in the repository's root.
 *
 * @param options added to those of tsconfig.json
 */
export function compilerErrors(texts: readonly string[], options: ts.CompilerOptions = {}): string[] {
  const sources = new Map(texts.map((text, index) => [join(ROOT, `text-${index}.ts`), text]));
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => ts.sys.readFile(path));
  const project = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT);
  const allOptions: ts.CompilerOptions = { ...project.options, noEmit: true, ...options };
  const host = ts.createCompilerHost(allOptions);
  const { readFile, fileExists } = host;
  host.readFile = (path) => sources.get(path) ?? readFile(path);
  host.fileExists = (path) => sources.has(path) || fileExists(path);
  const program = ts.createProgram([...sources.keys()], allOptions, host);
  const problems = [...sources.keys()].flatMap((path) => {
    const source = program.getSourceFile(path);
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
  });
  return problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}
