# Trains nothing: the script's own run of SwanLab is left alone.
import swanlab

swanlab.init(project="answers")
swanlab.log({"answers": 3})
