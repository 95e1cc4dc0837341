/** The shop: the schema that the demo and the end-to-end tests load. Types and shapes on purpose: composite keys, TOAST, enums, arrays. */
export const SHOP_TABLES = ['customers', 'orders', 'order_items', 'payments'] as const;
export type ShopTable = (typeof SHOP_TABLES)[number];

export const SHOP_SCHEMA_SQL = `
create type customer_tier as enum ('bronze', 'silver', 'gold');
create type order_status as enum ('new', 'paid', 'shipped', 'cancelled');

create table customers (
  id bigint primary key,
  ref uuid not null,
  email text not null,
  name varchar(120) not null,
  tier customer_tier not null,
  tags text[],
  profile jsonb,
  avatar bytea,
  biography text,
  created_at timestamptz not null
);

create table orders (
  tenant_id integer,
  order_id bigint,
  customer_id bigint not null,
  status order_status not null,
  total numeric(12,2) not null,
  weight double precision,
  note text,
  placed_on date not null,
  placed_at timestamptz not null,
  paid_at timestamptz,
  primary key (tenant_id, order_id)
);

create table order_items (
  tenant_id integer,
  order_id bigint,
  line_no smallint,
  sku text not null,
  quantity integer not null,
  price numeric(10,2) not null,
  gift boolean not null default false,
  primary key (tenant_id, order_id, line_no)
);

create table payments (
  id uuid primary key,
  tenant_id integer not null,
  order_id bigint not null,
  amount numeric(12,2) not null,
  method text not null,
  receipt bytea,
  taken_at timestamp not null
);
create index on orders (order_id);
create index on order_items (order_id);
create index on payments (order_id);
alter table customers alter column biography set storage external;
alter table orders alter column note set storage external;
`;

/** Columns that may hold values of some kilobytes out of line, so that updates leave them out of the stream. */
export const SHOP_TOASTED: Readonly<Record<string, string>> = { customers: 'biography', orders: 'note' };
