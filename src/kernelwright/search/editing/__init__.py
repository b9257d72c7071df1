"""Strategy, editors → edits of candidates: requested, carried out in threads, recorded in the journal."""
