/** Version of package.json, put in by the build. */
declare const __PDSCOPE_VERSION__: string;
