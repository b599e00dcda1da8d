"""The engine in this process: reads and writes rows with Arrow, without a JVM."""
