/**
 * ADAPTER of the membership port on Kafka's group protocol, without a consumer: join, sync, heartbeat, leave. The broker
 * notices a member that is gone (session time-out, 6 s: the least that brokers allow by default), and picks the one that
 * shares out.
 */
import { connectKafka, type GroupMemberId, type KafkaClient, type KafkaConnectionOptions } from './kafka-client.ts';
import { brokerErrorType } from './kafka-error.ts';
import { LogError } from './log.ts';
import type { GroupOptions, Membership } from './membership.ts';

/** Brokers refuse what lies outside their limits (group.min.session.timeout.ms): then the next is tried. */
const SESSIONS_MS = [6_000, 10_000, 30_000, 60_000];
/** How long the others are waited for when the group shares out anew. */
const REBALANCE_MS = 10_000;
const HEARTBEAT_MS = 500;
const RETRY_MS = 500;
/** A leave that gets no answer: the broker finds out by itself. */
const LEAVE_MS = 1_000;
const PROTOCOL_TYPE = 'sluice';
const PROTOCOL = 'tables-v1';

export function joinKafkaGroup(connection: KafkaConnectionOptions, options: GroupOptions): Membership {
  const state = {
    client: null as KafkaClient | null,
    member: null as GroupMemberId | null,
    memberId: '',
    session: 0,
    again: false,
    left: false,
    wake: (): void => undefined,
  };

  /** Until the time is over, or something has changed. */
  async function rest(ms: number): Promise<void> {
    if (state.again || state.left) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      state.wake = resolve;
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }

  async function join(client: KafkaClient): Promise<GroupMemberId> {
    state.again = false;
    const joined = await client.joinGroup({
      group: options.group,
      memberId: state.memberId,
      sessionMs: SESSIONS_MS[state.session] ?? REBALANCE_MS,
      rebalanceMs: REBALANCE_MS,
      protocolType: PROTOCOL_TYPE,
      protocol: PROTOCOL,
      metadata: options.describe(),
    });
    state.memberId = joined.memberId;
    const share = await client.syncGroup(joined, joined.isLeader ? options.share(joined.members) : new Map());
    if (!state.left) options.onShare(share);
    return joined;
  }

  /** One turn: into the group, and in it until it shares out anew. */
  async function turn(): Promise<void> {
    state.client ??= await connectKafka(connection);
    const member = await join(state.client);
    state.member = member;
    while (!state.left && !state.again) {
      await rest(HEARTBEAT_MS);
      if (!state.left) await state.client.heartbeat(member);
    }
  }

  async function recover(error: unknown): Promise<void> {
    switch (brokerErrorType(error instanceof LogError ? error.cause : error)) {
      case 'REBALANCE_IN_PROGRESS':
        return;
      case 'UNKNOWN_MEMBER_ID':
        state.memberId = '';
        options.onLost();
        return;
      case 'ILLEGAL_GENERATION':
        options.onLost();
        return;
      case 'INVALID_SESSION_TIMEOUT':
        if (state.session + 1 < SESSIONS_MS.length) {
          state.session++;
          return;
        }
    }
    options.onFailure(error);
    // The coordinator may have moved, or be away: another connection finds it.
    const { client } = state;
    state.client = null;
    await client?.close().catch(() => undefined);
    await rest(RETRY_MS);
  }

  async function run(): Promise<void> {
    while (!state.left) {
      try {
        await turn();
      } catch (error) {
        if (!state.left) await recover(error);
      }
    }
  }

  const running = run();
  return {
    again() {
      state.again = true;
      state.wake();
    },
    async leave() {
      if (state.left) return running;
      state.left = true;
      state.wake();
      const { client } = state;
      let timer: NodeJS.Timeout | undefined;
      const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, LEAVE_MS)));
      if (client !== null && state.memberId !== '')
        await Promise.race([client.leaveGroup(options.group, state.memberId).catch(() => undefined), limit]);
      clearTimeout(timer);
      // A join that waits for the others ends with its connection.
      await client?.close().catch(() => undefined);
      await running;
    },
  };
}
