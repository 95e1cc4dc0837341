/** The configured event log. */
import { openEmbeddedLog } from '../../log/embedded-log.ts';
import type { EventLog } from '../../log/log.ts';
import type { Config } from '../../runtime/config.ts';

export async function openLog(config: Config): Promise<EventLog> {
  return openEmbeddedLog({ directory: config.log.path });
}
