"""Small trainings with everything that counts in them: what is compared bit for bit."""
