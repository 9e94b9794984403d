"""Long-running services, one file or folder each. None imports another; drivers come by constructor.

Every service is a synchronous loop with one public `step()`, so that a simulator can run the same loop.
"""
