-- Listing: a page of a group's dead letters of one reason, newest first, from a cursor on, however few they are among all.
-- Costs one more index entry for each dead letter.
create index dead_letter_reason_page_idx on consumer.dead_letter (group_id, reason, time desc, topic, partition, "offset");
