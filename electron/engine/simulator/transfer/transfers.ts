/** The transfer protocols by the name an instance is started with. */
import type { SimTransfer } from '../sim-options.ts';
import { Mooncake } from './mooncake.ts';
import { Moriio } from './moriio.ts';
import { NixlPull } from './nixl-pull.ts';
import { NixlPush } from './nixl-push.ts';
import { NO_LOAD, NOTHING_HANDED_OVER, type Transfer, type TransferContext } from './transfer.ts';

/** An engine without a connector ignores kv_transfer_params. */
const NO_TRANSFER: Transfer = { mode: 'none', plan: () => NO_LOAD, finish: () => NOTHING_HANDED_OVER };

const TRANSFERS: Readonly<Record<SimTransfer, (context: TransferContext) => Transfer>> = {
  none: () => NO_TRANSFER,
  nixl: (context) => new NixlPull(context),
  'nixl-push': (context) => new NixlPush(context),
  mooncake: (context) => new Mooncake(context),
  moriio: (context) => new Moriio(context),
};

export function createTransfer(context: TransferContext): Transfer {
  return TRANSFERS[context.options.transfer](context);
}
