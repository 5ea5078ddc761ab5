"""From text and messages to rows: templates, tokens, masks, packing, collation."""
