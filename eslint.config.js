import { builtinModules } from 'node:module';
import js from '@eslint/js';
import sortImports from 'eslint-plugin-simple-import-sort';
import tseslint from 'typescript-eslint';

const nodeBuiltins = [...builtinModules, 'node:*'].filter((name) => !name.startsWith('_'));

// The environment is read in one place, which passes it on as an argument.
const environment = [
  {
    selector: "MemberExpression[object.name='process'][property.name='env']",
    message: 'Read the environment in src/config only, and pass it on as an argument.',
  },
  {
    selector: "MemberExpression[object.name='process'][property.value='env']",
    message: 'Read the environment in src/config only, and pass it on as an argument.',
  },
  {
    selector: "VariableDeclarator[init.name='process'] > ObjectPattern > Property[key.name='env']",
    message: 'Read the environment in src/config only, and pass it on as an argument.',
  },
  {
    selector: "ImportDeclaration[source.value=/^(node:)?process$/] > ImportSpecifier[imported.name='env']",
    message: 'Read the environment in src/config only, and pass it on as an argument.',
  },
  {
    selector:
      'ImportDeclaration[source.value=/^(node:)?process$/] > :matches(ImportDefaultSpecifier, ImportNamespaceSpecifier)[local.name!="process"]',
    message: 'Call it "process", so that a use of the environment is seen.',
  },
];

const style = [
  { selector: 'TSEnumDeclaration', message: 'Use a union of string literals.' },
  { selector: 'ExportDefaultDeclaration', message: 'Export by name.' },
  { selector: "ExportSpecifier[exported.name='default']", message: 'Export by name.' },
];

const noClient = {
  regex: '/(client|cli)/',
  message: 'What both the client and the worker need stands in src/temporal.',
};

// Rooms with one door each.
const doors = {
  regex: '^\\..*/(contract|protocol|common)/(?!index\\.js)',
  message: 'Import from the index.js of contract, protocol and common.',
};

/** What the command line may not import. `files` with good reasons may import more. */
const cliImports = (...allowed) => ({
  patterns: [
    ...(allowed.includes('choices') ? [] : [doors]),
    { regex: '/client/(?!index\\.js)', message: 'The command line uses what the library exports.' },
    {
      regex: `^\\.\\./(?!${allowed.join('|') || '$'})(activities|agent-jobs|(batch|budget|follow-up)(?!/[\\w-]+-details)|simulator|temporal|worker|workflows)(/|\\.js)`,
      message: 'The command line is built on the library: client, contract, config and dev-server.',
    },
  ],
});

// Runs in the workflow sandbox, or is imported by code that does: nothing of Node's, and nothing with effects.
const sandboxImports = {
  paths: nodeBuiltins
    .filter((name) => !name.includes('*'))
    .map((name) => ({ name, message: 'Not available in the workflow sandbox.' })),
  patterns: [
    doors,
    { group: ['node:*'], message: 'Not available in the workflow sandbox.' },
    {
      regex: '^@temporalio/(client|worker|activity|testing|envconfig|core-bridge)(/|$)',
      message: 'Workflow code may use @temporalio/workflow and @temporalio/common only.',
    },
    {
      regex: '^(undici|pino|commander)(/|$)',
      message: 'Input and output belong in activities and in the command line.',
    },
    {
      regex: '/(agent-jobs|activities|webhooks)/',
      allowTypeImports: true,
      message: 'Workflows know activities by their types only: use "import type".',
    },
    {
      regex: '(^|/)(config|worker|temporal|cli|client|dev-server|simulator|secrets|node)(/[^/]+)?\\.js$',
      message: 'Workflow code must not depend on code that runs outside the sandbox.',
    },
  ],
};

const pureImports = {
  ...sandboxImports,
  patterns: [
    ...sandboxImports.patterns.filter((pattern) => !pattern.regex?.startsWith('^@temporalio')),
    { regex: '^@temporalio/', message: 'The rules are pure: state and event in, state and answers out.' },
  ],
};

const impure = [
  {
    selector: "MemberExpression[object.name='Date'][property.name='now']",
    message: 'Pure code is given the time; it does not look it up.',
  },
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: 'Pure code is given the time.' },
  { selector: "CallExpression[callee.name='Date']", message: 'Pure code is given the time.' },
  {
    selector: "MemberExpression[object.name='Math'][property.name='random']",
    message: 'Pure code is given its random numbers.',
  },
];

const impureGlobals = ['performance', 'crypto', 'setTimeout', 'setInterval', 'setImmediate', 'fetch'].map((name) => ({
  name,
  message: 'Pure code has no clock, no chance and no effects.',
}));

// Rules are not merged between blocks, a later one replaces an earlier one: so each list is given whole.
const restrictSyntax = (...lists) => ['error', ...lists.flat()];

export default tseslint.config(
  {
    ignores: [
      'dist/**',
      'packages/*/dist/**',
      'dist-*/**',
      'coverage/**',
      '.cache/**',
      'node_modules/**',
      'test/**/histories/**',
    ],
  },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    plugins: { 'simple-import-sort': sortImports },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      'simple-import-sort/imports': ['error', { groups: [['^node:', '^@?\\w', '^\\.', '^\\u0000']] }],
      'simple-import-sort/exports': 'error',
      // Cycles are for knip, which resolves imports as the project does.
      'no-duplicate-imports': ['error', { allowSeparateTypeImports: true }],
      eqeqeq: ['error', 'always'],
      'no-console': 'error',
      'no-restricted-syntax': restrictSyntax(environment, style),
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'separate-type-imports' }],
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true, requireDefaultForNonUnion: true },
      ],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // Numbers and booleans in messages are fine; objects are not.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // `prLink !== null && …` and `while (true)` read as they are meant.
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      // `defineUpdate<void, [...]>` is how Temporal writes an update without an answer.
      '@typescript-eslint/no-invalid-void-type': 'off',
      // `return this.signal()` at an early exit is short and clear.
      '@typescript-eslint/no-confusing-void-expression': 'off',
    },
  },
  {
    // Plain counts, comments and empty lines included: what is longer has more than one concept.
    files: ['src/**'],
    rules: { 'max-lines': ['error', 350], 'max-lines-per-function': ['error', 60], 'max-depth': ['error', 4] },
  },
  {
    files: ['src/config/**'],
    rules: { 'no-restricted-syntax': restrictSyntax(style) },
  },
  {
    // Every other block with this rule has the doors, too.
    files: ['src/**', 'test/**', 'tools/**', 'examples/**'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', { patterns: [doors] }] },
  },
  {
    files: ['src/workflows/**'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', sandboxImports] },
  },
  ...[
    ['src/protocol/**', '^\\.\\./(?!(common|contract)/)', 'The protocol is built on common and contract alone.'],
    ['src/contract/**', '^\\.\\./(?!common/)', 'The contract is built on src/common alone.'],
    ['src/common/**', '^\\.\\./', 'The helpers of src/common depend on nothing of this package.'],
  ].map(([files, regex, message]) => ({
    files: [files],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        { ...sandboxImports, patterns: [...sandboxImports.patterns, { regex, message }] },
      ],
    },
  })),
  {
    files: [
      'src/activities/**',
      'src/worker/**',
      'src/worker.ts',
      'src/temporal/**',
      'src/agent-jobs/**',
      'src/webhooks/**',
      'src/secrets/**',
      'src/config/**',
      'src/node/**',
    ],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', { patterns: [doors, noClient] }] },
  },
  ...[
    ['src/cli/**', cliImports()],
    // They connect, start the parts of an installation, and look at them.
    ['src/cli/session.ts', cliImports('temporal')],
    // Help waits for no schema: with all of the contract, it takes a third longer.
    ['src/cli/commands.ts', cliImports('choices')],
    ['src/cli/{serve,dev}.ts', cliImports('worker', 'simulator')],
    ['src/cli/{doctor,setup}.ts', cliImports('agent-jobs', 'temporal')],
  ].map(([files, imports]) => ({
    files: [files],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', imports] },
  })),
  {
    // Signals and updates change a workflow's state while it awaits, which the compiler cannot see.
    files: ['src/workflows/**', 'src/follow-up/**'],
    rules: { '@typescript-eslint/no-unnecessary-condition': 'off' },
  },
  {
    files: ['src/batch/**', 'src/budget/**', 'src/follow-up/**'],
    rules: {
      '@typescript-eslint/no-restricted-imports': ['error', pureImports],
      'no-restricted-globals': ['error', ...impureGlobals],
      'no-restricted-syntax': restrictSyntax(environment, style, impure),
    },
  },
  {
    files: ['test/**', 'examples/**', 'tools/**'],
    rules: {
      'no-console': 'off',
      'no-restricted-syntax': restrictSyntax(style),
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/no-unnecessary-condition': 'off',
    },
  },
  {
    files: ['*.config.ts', '*.config.js'],
    rules: { 'no-restricted-syntax': 'off' },
  },
  {
    files: ['**/*.js', '**/*.mjs'],
    extends: [tseslint.configs.disableTypeChecked],
    languageOptions: {
      parserOptions: { projectService: false },
      globals: { process: 'readonly', URL: 'readonly', console: 'readonly', Buffer: 'readonly', fetch: 'readonly' },
    },
  },
);
