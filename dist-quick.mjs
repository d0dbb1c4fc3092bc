import { createRequire } from 'node:module';
import fs from 'node:fs'; import path from 'node:path'; import { pathToFileURL } from 'node:url';
const root='/work/wt/operators'; const require=createRequire(root+'/package.json');
const swc=require('@swc/core');
for (const name of fs.readdirSync(root+'/src',{recursive:true})) {
  if (!name.endsWith('.ts')) continue;
  const { code } = swc.transformSync(fs.readFileSync(root+'/src/'+name,'utf8'),{filename:name,jsc:{parser:{syntax:'typescript'},target:'es2022'},module:{type:'es6'}});
  const out=root+'/dist/'+name.replace(/\.ts$/,'.js'); fs.mkdirSync(path.dirname(out),{recursive:true}); fs.writeFileSync(out,code);
}
const { bundleWorkflowCode } = require('@temporalio/worker');
const { workflowBundleOptions } = await import(pathToFileURL(root+'/dist/worker/bundle-options.js').href);
const l=()=>{}; const logger={log:l,trace:l,debug:l,info:l,warn:console.error,error:console.error};
const { code } = await bundleWorkflowCode({...workflowBundleOptions(root+'/dist/workflows/index.js'),logger});
fs.writeFileSync(root+'/dist/workflow-bundle.js',code);
console.log('quick built');
