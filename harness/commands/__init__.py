"""What each verb of ``dethrone`` does, with all that people and programs are shown of it."""
