import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fetchOnce } from './fetch-once.ts';
import { runTool } from './toolchain.ts';

const DEPENDENCY_PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';

/**
 * Folder with the jars of these artifacts (`group:artifact:version`) and of everything they need at run time, fetched from
 * Maven Central on first use. @throws LocalServerError SERVER_UNAVAILABLE
 */
export async function fetchJars(cache: string, name: string, artifacts: readonly string[]): Promise<string> {
  const folder = await fetchOnce(cache, name, async (staging) => {
    const pom = join(staging, 'pom.xml');
    await writeFile(pom, pomWith(artifacts));
    const options = ['-DincludeScope=runtime', `-DoutputDirectory=${join(staging, 'libs')}`];
    await runTool('mvn', ['-q', '-B', '-f', pom, `${DEPENDENCY_PLUGIN}:copy-dependencies`, ...options], {
      what: `fetching ${name}`,
    });
  });
  return join(folder, 'libs');
}

function pomWith(artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, id, version] = artifact.split(':');
    return `<dependency><groupId>${group}</groupId><artifactId>${id}</artifactId><version>${version}</version></dependency>`;
  });
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>run-time</artifactId><version>1</version>
  <dependencies>${dependencies.join('\n')}</dependencies>
</project>
`;
}
