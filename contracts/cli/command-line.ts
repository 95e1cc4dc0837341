/** The `contracts` command's arguments. Every action ends as an exit code; every error as one line and what to do. */
import { Command, CommanderError } from 'commander';
import { ContractError } from '../engine/parse.ts';
import { formatFinding } from '../engine/finding.ts';
import type { Register, Registry } from './arguments.ts';
import { registerCheck } from './check-arguments.ts';
import { registerDiff } from './diff-arguments.ts';
import { registerDocs } from './docs/docs-command.ts';
import { registerExport } from './export-command.ts';
import { registerInfer } from './infer-command.ts';
import { registerTest } from './test-arguments.ts';
import { CommandError, EXIT } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import { fileFault, isDiskFault } from './file-fault.ts';
import type { Ports } from './ports.ts';

const COMMANDS: readonly Register[] = [
  registerCheck,
  registerDiff,
  registerInfer,
  registerTest,
  registerExport,
  registerDocs,
];

/** Runs `contracts ARGS`. */
export async function runContracts(args: readonly string[], ports: Ports): Promise<ExitCode> {
  let exit: ExitCode = EXIT.clean;
  const program = new Command('contracts')
    .description('Data contracts: check, compare, infer, test, export and document them.')
    .version('0.1.0')
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({ writeOut: ports.out, writeErr: ports.err });
  const registry: Registry = {
    program,
    ports,
    action:
      (work) =>
      async (...given) => {
        try {
          exit = await work(...given);
        } catch (error) {
          exit = tell(ports, error);
        }
      },
  };
  for (const register of COMMANDS) register(registry);
  try {
    await program.parseAsync([...args], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? EXIT.clean : EXIT.usage;
  }
  return exit;
}

function tell(ports: Ports, error: unknown): ExitCode {
  if (error instanceof CommandError) {
    const number = ports.numberOf?.(error.code) ?? null;
    ports.err(`contracts: ${number === null ? '' : `${number} ${error.code}: `}${error.message}\n`);
    if (error.remedy !== '') ports.err(`  ${error.remedy}\n`);
    return error.exit;
  }
  if (error instanceof ContractError) {
    for (const finding of error.findings) ports.err(`${formatFinding(finding)}\n`);
    return EXIT.usage;
  }
  const unread = fileFault(error);
  if (unread !== null) {
    ports.err(`contracts: ${unread}\n`);
    return isDiskFault(error) ? EXIT.environment : EXIT.usage;
  }
  throw error;
}
