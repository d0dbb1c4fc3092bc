/** The versions of one workflow. In the bundle of one version, it has its real name, `changing`. */
export { changing as version1 } from './version-1.js';
export { changing as version2 } from './version-2.js';
export { changing as version3 } from './version-3.js';
export { changing as version4 } from './version-4.js';
