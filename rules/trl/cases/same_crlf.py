"""No trainer; Windows line ends and a byte order mark."""
import trl

if trl:
	print(trl.__version__)   
