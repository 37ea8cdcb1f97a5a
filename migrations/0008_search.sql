-- What a filter needs of a row beside its terms.

alter table events.event add column data_form "char";
comment on column events.event.data_form is
  'How data can be asked about, as the worker found it (core/searchable.ts): j, jsonb takes it; t, text; null, neither.';

-- Rows from before get a form as far as SQL can tell, by the same rules, and what they had no terms for is looked at by any
-- search. The function may fail at what is not UTF-8, and so catches that.
create function pg_temp.form_of(data bytea, mediatype text) returns "char" language plpgsql as $$
declare
  essence constant text := lower(btrim(split_part(mediatype, ';', 1), E' \t\r\n\f\v'));
  payload text;
  outside text;
begin
  if mediatype is null or essence like '%/json' or essence like '%/%+json' then
    payload := convert_from(data, 'UTF8');
    if payload like E'\ufeff%' or not pg_input_is_valid(payload, 'jsonb') then return null; end if;
    outside := regexp_replace(payload, '"(\\.|[^"\\])*"', '""', 'g');
    if outside ~ '[eE][+-]?0*([1-9][0-9]{3}|40[1-9]|4[1-9][0-9]|[5-9][0-9]{2})' or outside ~ '([-+.0-9eE]{250}){4}[-+.0-9eE]'
      or jsonb_path_exists(payload::jsonb, 'strict $.**{256 to last} ? (@.type() == "array" || @.type() == "object")') then return null; end if;
    return 'j';
  end if;
  if mediatype !~* '^text/' then return null; end if;
  perform convert_from(data, 'UTF8');
  return case when position('\x00'::bytea in data) = 0 then 't' end;
exception when others then
  return null;
end $$;

update events.event set
  terms = coalesce(terms, '{1462569099}'),
  data_form = case when data is not null and data_type_url is null then pg_temp.form_of(data, datacontenttype) end;

alter table events.event alter column terms set not null;
comment on column events.event.terms is
  'Hashes of what the event can be found by, made by the worker (core/terms.ts). With 1462569099 among them, not all of them.';
drop index events.event_termless_idx;

-- Both are put into the query that calls them, and an index on the second serves its comparisons.
create function events.number_of(value text) returns numeric language sql immutable parallel safe
  return case when length(value) <= 100 and value ~ '^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$' then value::numeric end;
comment on function events.number_of is 'The number that the text of an extension attribute is; null where it is none, or out of bounds.';

create function events.data_number(data bytea, data_form "char", path jsonpath) returns numeric language sql immutable parallel safe
  return jsonb_path_query_first(case when data_form = 'j' then convert_from(data, 'UTF8')::jsonb end, path, '{}', true)::numeric;
comment on function events.data_number is 'The number that a payload has at a path, which leads to numbers alone.';
