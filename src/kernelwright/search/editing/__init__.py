"""Strategy, editors → edits of candidates: asked for, carried out in threads, kept in the journal."""
