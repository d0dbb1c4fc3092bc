/** Makes JSON Schemas for callers in other languages from the schemas of the contract. */

/** Each file in `schemas`: its title, and the schema of the contract that it is made from. */
const FILES = [
  ['follow-up-input', 'Input of the followUp workflow', 'followUpInputSchema'],
  ['follow-up-batch-input', 'Input of the followUpBatch workflow', 'followUpBatchInputSchema'],
  ['follow-up-result', 'Result of the followUp workflow', 'followUpResultSchema'],
  ['follow-up-progress', 'Answer of the query progress', 'followUpProgressSchema'],
  ['follow-up-failure', 'First of the details of a failed followUp workflow', 'failureDetailsSchema'],
  ['follow-up-batch-result', 'Result of the followUpBatch workflow', 'followUpBatchResultSchema'],
  ['follow-up-batch-status', 'Answer of the query batchStatus', 'batchStatusSchema'],
  ['webhook', 'Body of a webhook', 'webhookSchema'],
  ['follow-up-batch-items', 'Answer of the query batchItems', 'batchItemsSchema'],
];

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Patterns are read by the regular expressions of many languages. Some have no look-ahead. In some, `\d` is any digit of
 * Unicode, and `$` matches before a line feed at the end.
 */
const LINE_FEED = { type: 'string', pattern: '\\n' };

/** A character that is no white space for JavaScript: for `\S`, each language has a list of its own. */
const NOT_BLANK = '[^\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]';

/** No two dots in a row, and not `__proto__`. */
const ID = {
  type: 'string',
  minLength: 1,
  maxLength: 128,
  pattern: '^[A-Za-z0-9_-](\\.?[A-Za-z0-9_~-])*\\.?$',
  not: { type: 'string', pattern: '\\n|^__proto__$' },
};

/** JSON in which every character shows. */
function toAscii(json) {
  return json.replace(/[^ -~\n]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/**
 * JSON Schemas by file name.
 *
 * @param {typeof import('zod').z} z
 * @param {typeof import('../src/contract/index.js')} contract
 * @returns {Map<string, string>}
 */
export function jsonSchemas(z, contract) {
  return new Map(
    FILES.map(([name, title, schema]) => {
      const $defs = name.endsWith('-input') ? {} : undefined;
      const override = $defs ? (made) => describeInput(made, contract, $defs) : openToMore;
      const { $schema, ...rest } = z.toJSONSchema(contract[schema], { io: 'input', override });
      if ($defs) shareDefaults(rest.anyOf ?? [], $defs);
      const text = JSON.stringify({ $schema, title, ...rest, ...($defs && { $defs }) }, null, 2);
      return [`${name}.schema.json`, `${toAscii(text)}\n`];
    }),
  );
}

/**
 * Allows more fields, which a later version may answer. Leaves out what only repeats the type: bounds of integers and
 * patterns of times.
 */
function openToMore({ jsonSchema }) {
  if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
}

/** Both forms of a batch have the same defaults. */
function shareDefaults(forms, defs) {
  for (const { properties } of forms) {
    defs.defaults = properties.defaults;
    properties.defaults = { $ref: '#/$defs/defaults' };
  }
}

/** Adds what the conversion cannot see: rules in code, defaults and meanings. Rules of several fields go to `defs`. */
function describeInput({ jsonSchema, path }, { followUpSettings, MAX_PROMPT_BYTES }, defs) {
  const field = path.filter(
    (part) => !['properties', 'anyOf', 'items'].includes(String(part)) && !Number.isInteger(part),
  );
  const name = field.filter((part) => part !== 'defaults').join('.');
  const refer = (key, rule) => {
    defs[key] = rule;
    return { $ref: `#/$defs/${key}` };
  };
  const replace = (rule) => {
    for (const keyword of ['type', 'pattern', 'anyOf']) Reflect.deleteProperty(jsonSchema, keyword);
    Object.assign(jsonSchema, rule);
  };
  if (jsonSchema.pattern?.startsWith('^[A-Za-z0-9_-]')) replace(refer('id', ID));
  if (jsonSchema.type === 'string' && name === 'prompt') {
    jsonSchema.maxLength = MAX_PROMPT_BYTES;
    jsonSchema.pattern = NOT_BLANK;
    jsonSchema.description = `The message: at most ${MAX_PROMPT_BYTES} bytes of UTF-8, which may be fewer characters`;
  }
  const setting = followUpSettings[name];
  const alternatives = jsonSchema.anyOf?.map(({ type }) => type) ?? [];
  if (alternatives.join() === 'number,string') {
    replace({ allOf: Object.entries(durationRules(setting)).map(([key, rule]) => refer(key, rule)) });
  }
  // Every setting may be null.
  if (setting && alternatives.at(-1) === 'null') {
    Object.assign(jsonSchema, { description: setting.meaning.replaceAll('`', '"'), default: setting.default });
  }
}

const DURATION = {
  type: ['integer', 'string'],
  pattern: '^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)$',
  not: LINE_FEED,
};

/**
 * A duration is a number or text. `minimum` and `maximum` only apply to numbers, and `pattern` only to text: it has the
 * bound in each unit. The worker rounds to whole milliseconds before it compares.
 */
function durationRules({ min, max }) {
  const [minMs, maxMs] = [min, max].map(toMs);
  const least = minMs > 0 && { pattern: inEveryUnit((unitMs) => atLeast((minMs - 0.5) / unitMs)) };
  return {
    duration: DURATION,
    [`at-least-${min}`]: { minimum: minMs, ...least },
    [`at-most-${max}`]: { maximum: maxMs, pattern: inEveryUnit((unitMs) => below((maxMs + 0.5) / unitMs)) },
  };
}

function toMs(text) {
  const [, count, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text);
  return Number(count) * UNIT_MS[unit];
}

function inEveryUnit(pattern) {
  const each = Object.entries(UNIT_MS).map(([unit, unitMs]) => `(${pattern(unitMs)})${unit}`);
  return `^0*(${each.join('|')})$`;
}

/** The digits of a bound before and after the point. */
function digitsOf(bound) {
  const [whole, fraction] = bound.toFixed(12).split('.');
  return [whole, fraction.replace(/0+$/, '')];
}

/** A decimal number without leading zeros that is at least a bound. */
function atLeast(bound) {
  const [whole, fraction] = digitsOf(bound);
  const more = [`[1-9][0-9]{${whole.length},}`, ...greater(whole)];
  const same =
    fraction === ''
      ? `${whole}(\\.[0-9]+)?`
      : `${whole}\\.(${[...greater(fraction, '*'), `${fraction}[0-9]*`].join('|')})`;
  const equal = whole === '0' ? same.replace(/^0/, '0?') : same;
  return `(${more.join('|')})(\\.[0-9]+)?|${equal}`;
}

/** A decimal number without leading zeros that is below a bound. */
function below(bound) {
  const [whole, fraction] = digitsOf(bound);
  const less = [...(whole.length > 1 ? [`[0-9]{1,${whole.length - 1}}`] : []), ...lesser(whole)];
  const prefixes = [...fraction].slice(0, -1).map((_, index) => fraction.slice(0, index + 1));
  const tail = fraction === '' ? [] : [`${whole}(\\.(${[...lesser(fraction, '*'), ...prefixes].join('|')}))?`];
  return [...(less.length > 0 ? [`(${less.join('|')})(\\.[0-9]+)?`] : []), ...tail].join('|');
}

/** Patterns of digits that are greater than the given ones: one for each first digit that differs. */
function greater(digits, rest) {
  return differing(digits, rest, (digit) => (digit < 9 ? `[${digit + 1}-9]` : undefined));
}

/** Patterns of digits that are less than the given ones: one for each first digit that differs. */
function lesser(digits, rest) {
  return differing(digits, rest, (digit) => (digit > 0 ? `[0-${digit - 1}]` : undefined));
}

function differing(digits, rest, other) {
  return [...digits].flatMap((digit, index) => {
    const first = other(Number(digit));
    if (first === undefined) return [];
    const left = digits.length - index - 1;
    const tail = rest === '*' ? '[0-9]*' : left > 0 ? `[0-9]{${left}}` : '';
    return [`${digits.slice(0, index)}${first}${tail}`];
  });
}
