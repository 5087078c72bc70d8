"""The SQL shell: it runs statements that are typed, or in scripts and notebook cells."""
