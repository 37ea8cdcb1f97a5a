import { type Database } from "./pool.ts";

const RELATIONS = `
select format('%I.%I', nspname, relname) as name,
  case when relkind = 'p' then ' partitioned by ' || pg_get_partkeydef(c.oid) else '' end
  || case when relispartition then format(' partition of %s %s', inhparent::regclass, pg_get_expr(relpartbound, c.oid)) else '' end
  || case when reloptions is null then '' else format(' with (%s)', array_to_string(reloptions, ', ')) end as traits,
  array(
    select format('%I %s', attname, format_type(atttypid, atttypmod))
      || case when attcollation <> typcollation then format(' collate %s', attcollation::regcollation) else '' end
      || case when attnotnull then ' not null' else '' end
      || coalesce(' default ' || pg_get_expr(adbin, adrelid), '')
      || case when attstorage <> typstorage then format(' storage %s', attstorage) else '' end
    from pg_attribute join pg_type t on t.oid = atttypid left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = c.oid and attnum > 0 and not attisdropped order by attnum
  ) as columns,
  array(
    select format('constraint %I %s', conname, pg_get_constraintdef(oid)) from pg_constraint
    where conrelid = c.oid and contype <> 'n' order by conname
  ) as constraints,
  array(
    select pg_get_indexdef(indexrelid) from pg_index join pg_class i on i.oid = indexrelid
    where indrelid = c.oid order by i.relname
  ) as indexes
from pg_class c join pg_namespace n on n.oid = relnamespace left join pg_inherits on inhrelid = c.oid
where OURS and relkind in ('r', 'p') and (not relispartition or pg_get_expr(relpartbound, c.oid) = 'DEFAULT')
order by nspname, relname`;

// Nothing of the schema may stay unseen: what is no table is at least named.
const OTHERS = `
select format('relation %I.%I of kind %s', nspname, relname, relkind) as line
from pg_class join pg_namespace n on n.oid = relnamespace where OURS and relkind not in ('r', 'p', 'i', 'I', 't')
union all
select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = pronamespace where OURS
union all
select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = tgrelid
join pg_namespace n on n.oid = relnamespace where OURS and not tgisinternal
union all
select format('type %I.%I', nspname, typname) from pg_type join pg_namespace n on n.oid = typnamespace
where OURS and typtype in ('e', 'd', 'r')
order by 1`;

const OURS = "nspname not in ('information_schema', 'public') and nspname !~ '^pg_'";

interface Relation {
  readonly name: string;
  readonly traits: string;
  readonly columns: readonly string[];
  readonly constraints: readonly string[];
  readonly indexes: readonly string[];
}

/**
 * The schema as text, from the catalog: every table with its columns, constraints and indexes, then whatever else there
 * is. The same for every database of one schema: the monthly partitions, which depend on the date, are left out.
 */
export async function renderSchema(db: Database): Promise<string> {
  const { rows: relations } = await db.pool.query<Relation>(RELATIONS.replaceAll("OURS", OURS));
  const { rows: others } = await db.pool.query<{ line: string }>(OTHERS.replaceAll("OURS", OURS));
  const blocks = relations.map(({ name, traits, columns, constraints, indexes }) =>
    [`table ${name}${traits}`, ...[...columns, ...constraints, ...indexes].map((line) => `  ${line}`)].join(
      "\n",
    ),
  );
  return `${[...blocks, ...others.map(({ line }) => line)].join("\n\n")}\n`;
}
