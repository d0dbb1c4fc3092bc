const t0=performance.now();
for (const m of process.argv.slice(2)) { const t=performance.now(); await import(m.startsWith('.')||m.startsWith('/')?m:m); console.log(m, (performance.now()-t).toFixed(0)); }
