-- Searches go by how frequent terms are (postgres/search-windows.ts). By default PostgreSQL knows the 1,000 most frequent, in practice
-- down to one event in 300; now 3,000, down to one in 1,100. ANALYZE of a month of 3.3 million events takes 8 s for that instead
-- of 4. Partitions that are made later get the same (postgres/partitions.ts).
alter table events.event alter column terms set statistics 300;
