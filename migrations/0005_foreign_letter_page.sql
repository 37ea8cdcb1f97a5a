-- Listing: a page of a dead-letter topic's foreign records, newest first among its dead letters, from a cursor on. Costs
-- nothing where all goes well: the table is empty then.
create index foreign_letter_page_idx on consumer.foreign_letter (topic, time desc, partition, "offset");
