-- Each record that was published again out of a dead letter: who had it done, by what, and where it stands since. The journey
-- of an event goes over it from a letter to what became of it, and back.
create table consumer.replay (
  replayed_at timestamptz not null default now(),
  "offset" bigint not null,
  to_offset bigint not null,
  partition integer not null,
  to_partition integer not null,
  attempt integer not null,
  group_id text collate "C" not null,
  topic text collate "C" not null,
  to_topic text collate "C" not null,
  principal text collate "C" not null,
  cause text collate "C" not null,
  -- One row a published record; the journey from a record to the letter that it was.
  constraint replay_pkey primary key (to_topic, to_partition, to_offset)
);

comment on table consumer.replay is 'Records that were published again out of dead letters.';
comment on column consumer.replay.replayed_at is 'When the transaction began that noted it, after it was on the log.';
comment on column consumer.replay."offset" is 'With group_id, topic and partition: the dead letter.';
comment on column consumer.replay.to_offset is 'With to_topic and to_partition: where the record stands since.';
comment on column consumer.replay.attempt is 'Which replay of the record it is, from 1 on.';
comment on column consumer.replay.principal is 'Who had it replayed: the subject of the token.';
comment on column consumer.replay.cause is 'auditEntries/{id} of the call that did it, or redrives/{id}.';

-- The journey of an event: what was made of its dead letters. Costs one more index entry for each replay.
create index replay_letter_idx on consumer.replay (group_id, topic, partition, "offset");
