"""The SQL shell: runs statements that are typed, or in scripts and notebook cells."""
