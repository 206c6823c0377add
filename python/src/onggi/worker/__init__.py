"""What runs inside a sandboxed worker. Nothing here is for users to import."""
